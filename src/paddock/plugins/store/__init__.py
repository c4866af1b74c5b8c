"""The plugin store: installed plugins in rows and on disk, their versions, lookup and purge."""
