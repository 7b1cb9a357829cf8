"""The page on which users choose their notifications."""
