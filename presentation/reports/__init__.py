"""Reports: files that show what a service knows to people who have no access to it.

`presentation.reports.kinds.build` makes a report from the rows of the HTTP client as of one position of the log, first as
plain content (`presentation.reports.content`), then as HTML, Markdown, JSON, CSV or pictures. A report has no clock: the
same question at the same position gives the same bytes.
"""
