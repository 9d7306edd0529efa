"""Code that several components share: messages, handles, errors, limits, settings. Pure: no files, no network."""
