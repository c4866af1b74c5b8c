"""Actions: remedies as data, with a sentence for readers without a renderer."""

from __future__ import annotations

from paddock.core.action import SENTENCES, Action, action_kinds, fill_template, template_arguments, with_sentence
from paddock.core.error_formats import error_to_json, mcp_tool_result, osqr_plugin_error, problem_details
from paddock.core.errors import NotFound, Problem

ENABLE = Action.of("plugin.enable", plugin="notes", tenant="acme", grants=("net:*", "read:fs:/srv"))


def test_every_kind_has_a_sentence_and_they_are_listed_in_order() -> None:
    assert list(SENTENCES) == list(action_kinds()) == sorted(action_kinds())


def test_a_sentence_leaves_out_what_is_not_known() -> None:
    assert ENABLE.sentence == "Enable the plugin notes in the tenant acme, granting net:*, read:fs:/srv."
    assert Action.of("plugin.enable", plugin="notes").sentence == "Enable the plugin notes."
    assert Action.of("user.add").sentence == "Add the user NAME."


def test_empty_arguments_and_the_default_tenant_are_left_out() -> None:
    assert Action.of("plugin.enable", plugin="notes", tenant="default", grants=()).arguments == {"plugin": "notes"}


def test_an_action_comes_back_from_json_as_it_was() -> None:
    assert Action.from_json(ENABLE.to_json()) == ENABLE


def test_json_that_is_no_action_of_this_version_is_none() -> None:
    for value in (None, "plugin.enable", {"kind": "plugin.fly", "arguments": {}}, {"kind": "plugin.enable"}):
        assert Action.from_json(value) is None


def test_arguments_of_a_template_say_whether_they_have_to_be_given() -> None:
    assert template_arguments("show {plugin} {name|NAME}[ --tenant {tenant}]") == {
        "plugin": True,
        "name": False,
        "tenant": False,
    }


def test_several_values_repeat_their_option() -> None:
    template = "enable {plugin}[ --grant {grants}]"
    assert fill_template(template, ENABLE.arguments, repeat=True) == "enable notes --grant net:* --grant read:fs:/srv"


def test_every_outward_error_carries_the_action() -> None:
    error = NotFound("there is no plugin 'notes'", hint="names are case-sensitive", action=Action.of("plugin.list"))
    listed = {"kind": "plugin.list", "arguments": {}}
    assert error_to_json(error).get("action") == listed
    assert mcp_tool_result(error)["structuredContent"]["action"] == listed
    assert mcp_tool_result(error)["content"][0]["text"].endswith("\nList the installed plugins.")
    assert problem_details(error, "err_1")["detail"].endswith("names are case-sensitive. List the installed plugins.")
    assert osqr_plugin_error(error).get("suggested_action") == "names are case-sensitive. List the installed plugins."
    assert error.as_problem().to_dict().get("action") == listed


def test_a_problem_in_words_ends_with_its_action() -> None:
    problem = Problem("runtime", "is disabled", action=Action.of("plugin.enable", plugin="notes"))
    assert str(problem) == "runtime: is disabled — Enable the plugin notes."
    assert with_sentence("it was stopped", None) == "it was stopped."
