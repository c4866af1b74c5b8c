"""Values and rules that everything else is built from. Nothing here touches disk or network."""
