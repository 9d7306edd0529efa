"""Code that all admin calls share: their form, the checks of their arguments, and their words."""
