"""MCP: the commands of Pitstop as tools of a server over stdio, for coding agents.

server.py     the tools, and what each may be given
confined.py   paths lead to the folder in which the server was started, and nowhere else
command.py    one command of ours in a process of its own, with its progress and its end
"""
