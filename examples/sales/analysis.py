"""Analyse a year of orders: revenue by region and month, and the orders that are out of the ordinary.

Reads sales.csv beside this file, or the file that is its first argument. Prints a report, and writes the figures to
/output/summary.json.
"""

import csv
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

OUTPUT = Path("/output/summary.json")


def read_orders(path):
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            row["revenue"] = int(row["units"]) * float(row["unit_price"])
            yield row


def revenue_by(orders, key):
    totals = defaultdict(float)
    for order in orders:
        totals[key(order)] += order["revenue"]
    return {name: round(total, 2) for name, total in sorted(totals.items())}


def unusual(orders):
    """Orders whose revenue is more than three standard deviations above the mean."""
    revenues = [order["revenue"] for order in orders]
    limit = statistics.fmean(revenues) + 3 * statistics.stdev(revenues)
    return [order for order in orders if order["revenue"] > limit]


def bar(value, largest, width=30):
    return "#" * round(width * value / largest)


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("sales.csv")
    orders = list(read_orders(path))
    regions = revenue_by(orders, lambda order: order["region"])
    months = revenue_by(orders, lambda order: order["date"][:7])
    revenues = [order["revenue"] for order in orders]
    outliers = unusual(orders)

    print(f"{len(orders)} orders, revenue {sum(revenues):,.2f}, median order {statistics.median(revenues):.2f}")
    print("\nRevenue by region")
    for region, revenue in sorted(regions.items(), key=lambda item: -item[1]):
        print(f"  {region:<6} {revenue:>10,.2f}  {bar(revenue, max(regions.values()))}")
    print("\nRevenue by month")
    for month, revenue in months.items():
        print(f"  {month} {revenue:>9,.2f}  {bar(revenue, max(months.values()))}")
    print("\nUnusual orders")
    for order in outliers:
        print(f"  {order['order']} on {order['date']}: {order['units']} x {order['product']}, {order['revenue']:,.2f}")

    summary = {
        "orders": len(orders),
        "revenue": round(sum(revenues), 2),
        "median_order": round(statistics.median(revenues), 2),
        "revenue_by_region": regions,
        "revenue_by_month": months,
        "unusual_orders": [order["order"] for order in outliers],
    }
    OUTPUT.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
