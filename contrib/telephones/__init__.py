"""What telephones find by LDAP and in XML phone books: docs/telephone-systems.md."""
