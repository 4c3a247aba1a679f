from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lookup', '0002_file_lookups'),
    ]

    operations = [
        migrations.AddField(
            model_name='filelookup',
            name='size',
            field=models.BigIntegerField(db_default=0, help_text='Bytes of its rows.'),
        ),
        migrations.AddField(
            model_name='filelookuprow',
            name='size',
            field=models.IntegerField(db_default=1024, help_text='Bytes that it takes in the database, about.'),
        ),
    ]
