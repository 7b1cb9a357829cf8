"""The pages of HTTP tools: form, preview, try-out."""
