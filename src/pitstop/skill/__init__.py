"""Skill: what a coding agent is taught, in ``SKILL.md``."""
