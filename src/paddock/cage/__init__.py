"""The sandbox of plugin processes: what a process sees of the host, which resources it may use, how it starts and ends.

    spec, launcher    the interface for other packages: a cage as a value, and the protocol that launches one
    confine           restrictions applied from inside: seccomp, Landlock, rlimits
    plan              granted capabilities to a spec, and a spec to bubblewrap's arguments
    cgroups           memory, process and CPU limits: cgroups, or the fallback where there are none
    launch_request    what starting a cage takes and gives; there are two ways:
    bwrap             bubblewrap builds the cage from scratch
    zygote            a fork of a pre-started interpreter builds the cage around itself
    network           relays the plugin's connections to the outside, as far as granted
    warden            the process that starts, watches and ends all cages, and the daemon's connection to it

Each package uses only those listed above it. `probe` finds out whether this host can build a cage at all.
"""
