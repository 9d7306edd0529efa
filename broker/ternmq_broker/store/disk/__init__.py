"""Files and folders of the store: how they are opened, written, checked, locked and set aside."""
