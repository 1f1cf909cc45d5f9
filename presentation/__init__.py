"""How figures are drawn and written for people: formats, palette, charts, reports."""
