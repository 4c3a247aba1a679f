from django.apps import AppConfig


class PhonebookConfig(AppConfig):
    name = "phonebook"
    verbose_name = "Numbers"
