"""What happened, in chains of hashes that signed checkpoints outside the database hold in place."""
