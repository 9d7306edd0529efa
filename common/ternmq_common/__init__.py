"""What two components must agree on: messages, handles, errors, limits, settings. Pure: no files, no network."""
