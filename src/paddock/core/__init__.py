"""Values and rules everything else is built from. Nothing here touches disk, network or the clock."""
