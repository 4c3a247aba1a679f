from django import template

from core.commands import command_line

register = template.Library()
register.simple_tag(command_line, name="command")
