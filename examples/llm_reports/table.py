"""The table of reports, in the application's own database: `REPORTS_DATABASE`."""

import os
from functools import cache

from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from examples.llm_reports.schema import Written


class Base(DeclarativeBase):
    """What the database holds."""


class Row(Base):
    """One report."""

    __tablename__ = "reports"

    document: Mapped[str] = mapped_column(primary_key=True)
    report: Mapped[str]
    title: Mapped[str]
    risk: Mapped[str]
    job: Mapped[int]


def record(document: str, written: Written, *, job: int) -> None:
    """Have exactly one row for the document, whatever was there before."""
    row = Row(
        document=document, report=written.path, title=written.title, risk=written.risk, job=job
    )
    with Session(_engine(_url())) as session, session.begin():
        session.merge(row)


def rows() -> list[Row]:
    """All of them, by document."""
    with Session(_engine(_url())) as session:
        return list(session.scalars(select(Row).order_by(Row.document)))


def _url() -> str:
    return os.environ.get("REPORTS_DATABASE", "sqlite:///reports.db")


@cache
def _engine(url: str) -> Engine:
    engine = create_engine(url, pool_pre_ping=True)
    Base.metadata.create_all(engine)
    return engine
