"""What a run answers: results, their tables and figures."""
