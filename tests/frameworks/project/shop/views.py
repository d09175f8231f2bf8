from django.db import transaction
from django.http import HttpResponse

from shop import tasks
from shop.models import Order


def order(request, number):
    with transaction.atomic():
        Order.objects.create(number=number)
        result = tasks.confirm.enqueue(number)
        if number == 13:
            raise RuntimeError("unlucky")
    return HttpResponse(result.id)


def order_more(request, number):
    with transaction.atomic():
        return HttpResponse(tasks.asks_for_more.enqueue(number).id)
