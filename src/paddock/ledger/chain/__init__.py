"""Chain integrity: checkpoints, the key that signs them, verification and export."""
