from rest_framework import serializers


class SearchRequest(serializers.Serializer):
    api_key = serializers.CharField(max_length=2048)
    query = serializers.RegexField("^[1-9][0-9]{6,14}$")


class SourceA(serializers.Serializer):
    name = serializers.CharField(required=False)
    location = serializers.CharField(required=False)


class SourceB(serializers.Serializer):
    name = serializers.CharField(required=False)
    spam = serializers.BooleanField(required=False)


class Combined(serializers.Serializer):
    source_a_available = serializers.BooleanField()
    source_b_available = serializers.BooleanField()


class SearchData(serializers.Serializer):
    phone_number = serializers.CharField()
    source_a = SourceA()
    source_b = SourceB()
    combined = Combined()


class SearchResponse(serializers.Serializer):
    success = serializers.BooleanField()
    data = SearchData()  # type: ignore[assignment]
    credits_remaining = serializers.IntegerField()
