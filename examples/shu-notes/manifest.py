PLUGIN_MANIFEST = {
    "name": "shu_notes",
    "version": "1.0.0",
    "display_name": "Notes",
    "description": "Keep short notes, and add to them after approval",
    "author": "paddock-examples",
    "license": "Apache-2.0",
    "entrypoints": {"shu_notes": "shu_notes.plugin:Plugin"},
    "capabilities": ["storage"],
}
