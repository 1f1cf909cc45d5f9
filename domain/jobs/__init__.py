"""Jobs for many machines: what a job needs, what a worker can do, and how a job stands."""
