"""The pipeline of dead letters: reports them, has them repaired, and sends them again."""
