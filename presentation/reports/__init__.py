"""Reports: what is known, put together for people who do not have the service at hand.

A report is made from the rows of the HTTP client, as of one position of the log, first as plain content
(`presentation.reports.content`) and then as HTML, Markdown, JSON, CSV or pictures. It has no clock: the same question at the
same position gives the same bytes.
"""
