from console import pages

NAME = "monitoring_source_test"

pages.SIDEBAR.add(
    pages.Place(
        "Monitoring", pages.Page("Test a number", "phone_in_talk", NAME, "monitoring.test_lookup"), after="Sources"
    )
)
pages.VIEWS.add(pages.View("test-a-number/", "contrib.lookup_tester.admin.view", NAME, "monitoring.test_lookup"))
