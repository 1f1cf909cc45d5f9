"""What questions ask most, in memory beside the tables: SQL stays the truth that each answer equals."""
