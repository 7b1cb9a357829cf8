"""How much of our code each path enters: functions and files, counted on real calls."""
