"""The fence: what a plugin's process sees of the machine, what it may use, and how it is started and ended.

    spec, launcher   what the rest of the house knows: a cage as a value, and whoever starts one
    walls            what holds a plugin from the inside: system calls, files, limits
    plan             from granted capabilities to a spec, and from a spec to bubblewrap's arguments
    limits           memory, processes and CPU: the kernel's groups, or what stands in for them
    ways             what a way to start a cage has to do; two do it:
    cold             bubblewrap builds it from nothing
    warm             a copy of a warm interpreter builds it around itself
    network          what a plugin connects to inside is carried outside
    warden           the process that starts, watches and ends all cages, and the daemon's line to it

Each uses only what stands above it. `probe` finds out whether a cage can be built here at all.
"""
