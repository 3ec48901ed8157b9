"""Routes for single keys [MW16-LOCALITY]: pair statistics, key graph, search, routing tables.

``route_planner.plan_key_routes`` adds routes to a plan.
"""
