"""Tests of the bridge to servers over stdio."""
