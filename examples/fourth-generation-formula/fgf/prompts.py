"""Two prompts: a weekly look back, and openings for a conversation that families put off."""

from __future__ import annotations

from typing import Any, cast

from fgf.levels import LEVELS
from fgf.rpc import INVALID_PARAMS, RpcError

WEEKS = 13

PROMPTS: list[dict[str, Any]] = [
    {
        "name": "weekly_reflection",
        "description": "Guided weekly reflection on transfer progress",
        "arguments": [
            {"name": "week_number", "description": "Current week in 13-week program", "required": True},
        ],
    },
    {
        "name": "transfer_conversation_starter",
        "description": "Prompts to start transfer discussions with family",
        "arguments": [],
    },
]


def render(name: str, arguments: Any) -> dict[str, Any]:
    """A prompt as messages.

    Raises:
        RpcError: there is no such prompt, or an argument is missing or wrong.
    """
    prompt = next((prompt for prompt in PROMPTS if prompt["name"] == name), None)
    if prompt is None:
        raise RpcError(INVALID_PARAMS, f"there is no prompt {name[:128]!r}")
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "arguments must be an object")
    text = weekly(cast("dict[str, Any]", arguments)) if name == "weekly_reflection" else starters()
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": prompt["description"], "messages": [message]}


def weekly(arguments: dict[str, Any]) -> str:
    given = str(arguments.get("week_number", ""))
    if not given.isascii() or not given.isdigit() or len(given) > 2 or not 1 <= int(given) <= WEEKS:
        raise RpcError(INVALID_PARAMS, f"week_number must be a number from 1 to {WEEKS}")
    week = int(given)
    if week <= len(LEVELS):
        level = LEVELS[week - 1]
        theme = f"This week's level is {level.name}. Its next step was: {level.next_step}"
    else:
        theme = "The levels are behind us. Go back to the one that held least, and to what stood in its way."
    return (
        f"Week {week} of {WEEKS}. {theme}\n\n"
        "Ask me these one at a time, and wait for each answer: What did I hand over this week? What did I take back? "
        "Who noticed? Then help me choose one thing for next week."
    )


def starters() -> str:
    lines = ["Help me start a conversation with my family about handing over. Offer me these openings, and", ""]
    lines += [f"- {level.questions[0]}" for level in LEVELS[::2]]
    lines += [
        "",
        "let me choose one. Then help me to say it in my own words, as a question and not as an announcement.",
    ]
    return "\n".join(lines)
