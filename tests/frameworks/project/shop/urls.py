from django.contrib import admin
from django.urls import path

from shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/<int:number>", views.order),
    path("orders/<int:number>/more", views.order_more),
]
