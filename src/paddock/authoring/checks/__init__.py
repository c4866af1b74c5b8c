"""The checks of `paddock plugin test`: the wire for every plugin, and beyond it the contract of each Kernel kind."""
