// What any client does with any server, and what it was told.
export async function told(client, call) {
    const steps = arrivedProgress(client.transport);
    const onprogress = () => {}; // with it the client asks for progress
    const tool = (name, options = {}) => call({ name, arguments: {} }, options);
    const { tools } = await client.listTools();
    const text = await tool("test_simple_text");
    const mixed = await tool("test_multiple_content_types");
    const failed = await tool("test_error_handling");
    await tool("test_tool_with_progress", { onprogress });
    const greeted = await tool("test_input_required_result_elicitation");
    const { resources } = await client.listResources();
    const read = await client.readResource({ uri: "test://template/123/data" });
    const { prompts } = await client.listPrompts();
    const prompt = await client.getPrompt({
        name: "test_prompt_with_arguments",
        arguments: { arg1: "hello", arg2: "world" },
    });
    const completed = await client.complete({
        ref: { type: "ref/prompt", name: "test_prompt_with_arguments" },
        argument: { name: "arg1", value: "par" },
    });
    return {
        tools: tools.map(({ name }) => name),
        text: text.content[0].text,
        mixed: mixed.content.map(({ type }) => type),
        failed: failed.isError,
        steps,
        greeted: greeted.content[0].text,
        resources: resources.map(({ uri }) => uri),
        read: JSON.parse(read.contents[0].text).id,
        prompts: prompts.map(({ name }) => name),
        prompt: prompt.messages[0].content.text,
        completed: completed.completion.values,
    };
}

// Counted as it arrives: the official clients drop the progress that comes in one read with the answer, since they
// forget the call's handler before they run it.
function arrivedProgress(transport) {
    const steps = [];
    const deliver = transport.onmessage;
    transport.onmessage = (message, extra) => {
        if (message.method === "notifications/progress") steps.push(message.params.progress);
        deliver(message, extra);
    };
    return steps;
}
