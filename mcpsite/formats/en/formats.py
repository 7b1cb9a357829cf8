"""One form of time; Django's own, ``Nov. 22, 2026, 10:13 p.m.``, cannot be compared at a glance."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y-m-d H:i:s"
