"""Sortable date and time formats. Django's ``Nov. 22, 2026, 10:13 p.m.`` is hard to compare."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y-m-d H:i:s"
