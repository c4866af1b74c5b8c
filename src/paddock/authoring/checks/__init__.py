"""The checks of `paddock plugin test`: the protocol for every plugin, and the contract of each Kernel kind."""
