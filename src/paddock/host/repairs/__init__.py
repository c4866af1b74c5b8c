"""What somebody has to see to: found out from facts, mended by buttons, and left alone where somebody says so."""
