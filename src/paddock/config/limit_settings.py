"""Settings of what plugins and callers may use: resources, timeouts and rate limits."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.config.setting_spec import SettingKind, Tightening, setting

#: OSQR plugins get a hard CPU quota even when none is configured; its own document says so.
OSQR_CPU_QUOTA = 0.5


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Resource and rate limits."""

    memory_mb: int = setting(
        512,
        "Memory of one plugin, in MiB.",
        kind=SettingKind.INTEGER,
        variables=("OSQR_PLUGINS_CONTAINER_MEMORY_MB",),
        minimum=16,
        maximum=1_048_576,
        tighter=Tightening.LOWER,
    )
    cpu_weight: int = setting(
        256,
        "Share of the CPU when it is contended, on the scale where an ordinary process has 1024.",
        kind=SettingKind.INTEGER,
        minimum=2,
        maximum=1024,
        tighter=Tightening.LOWER,
    )
    cpu_quota: float | None = setting(
        None,
        "Hard limit in CPUs (0.5 is half of one). Unset: none, except 0.5 for plugins of the OSQR dialect.",
        kind=SettingKind.NUMBER,
        variables=("OSQR_PLUGINS_CONTAINER_CPU_LIMIT",),
        minimum=0.01,
        maximum=1024,
        tighter=Tightening.LOWER,
    )
    pids: int = setting(
        100,
        "Processes and threads of one plugin.",
        kind=SettingKind.INTEGER,
        minimum=4,
        maximum=10_000,
        tighter=Tightening.LOWER,
    )
    call_timeout_s: int = setting(
        30,
        "How long one call may take, in seconds, where its callable does not say otherwise.",
        kind=SettingKind.INTEGER,
        minimum=1,
        maximum=900,
        tighter=Tightening.LOWER,
    )
    in_progress_s: int = setting(
        86_400,
        "How long an operator that returns `in_progress` is polled for one call, in seconds. After that the outcome of "
        "its effect is unknown.",
        kind=SettingKind.INTEGER,
        minimum=1,
        maximum=2_592_000,
        tighter=Tightening.LOWER,
    )
    calls_per_tenant: int | None = setting(
        None,
        "How many calls a tenant may make in a minute. Unset: any number.",
        kind=SettingKind.INTEGER,
        minimum=1,
        tighter=Tightening.LOWER,
    )
    calls_per_principal: int | None = setting(
        None,
        "How many calls one person, key or agent may make in a minute. Unset: any number.",
        kind=SettingKind.INTEGER,
        minimum=1,
        tighter=Tightening.LOWER,
    )
    calls_per_plugin: int | None = setting(
        None,
        "How many calls of one tenant a plugin may get in a minute. Unset: any number.",
        kind=SettingKind.INTEGER,
        minimum=1,
        tighter=Tightening.LOWER,
    )
    daily_calls_per_tenant: int | None = setting(
        None,
        "How many calls a tenant may make in a day, which begins at midnight UTC. Unset: any number.",
        kind=SettingKind.INTEGER,
        minimum=1,
        tighter=Tightening.LOWER,
    )
    daily_calls_per_principal: int | None = setting(
        None,
        "How many calls one person, key or agent may make in a day, which begins at midnight UTC. Unset: any number.",
        kind=SettingKind.INTEGER,
        minimum=1,
        tighter=Tightening.LOWER,
    )
    daily_calls_per_plugin: int | None = setting(
        None,
        "How many calls of one tenant a plugin may get in a day, which begins at midnight UTC. Unset: any number.",
        kind=SettingKind.INTEGER,
        minimum=1,
        tighter=Tightening.LOWER,
    )
    waiting_per_principal: int = setting(
        100,
        "How many calls of one person, key or agent may wait for a person at once, with 8 MiB of parameters in all. It "
        "keeps one agent from burying what others ask; a tenant has no limit.",
        kind=SettingKind.INTEGER,
        minimum=1,
        tighter=Tightening.LOWER,
    )
    kept_inputs: int = setting(
        10_000,
        "Of how many calls of a tenant, the newest, the inputs are kept for the page of the call; without secrets. 0 "
        "keeps none.",
        kind=SettingKind.INTEGER,
        minimum=0,
        maximum=1_000_000,
        tighter=Tightening.LOWER,
    )

    def hard_quota(self, dialect: str) -> float | None:
        """The CPU quota for a plugin of this dialect, None for no hard limit."""
        if self.cpu_quota is None and dialect == "osqr":
            return OSQR_CPU_QUOTA
        return self.cpu_quota
