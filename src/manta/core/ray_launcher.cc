#include "manta/core/ray_launcher_internal.h"

namespace manta {

const char* ray_launcher() {
  return R"python(
# Starts agents of Manta on the nodes of a Ray cluster: one actor for each, which starts the agent as its child. Part of
# the program (see ray_source.cc), which runs it, and talks with it in lines of JSON: first "hello" from here, then an order
# from there. Ends when its standard input does, and with it, by Ray, all actors.
import json, os, queue, sys, threading, time

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what anybody else prints goes to the log


def tell(**what):
    print(json.dumps(what), file=out, flush=True)


def fail(why):
    tell(failed=why)
    os._exit(1)


options = json.loads(sys.argv[1])
try:
    import ray
    from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as InGroup
except ImportError as error:
    fail(f"{sys.executable} has no Ray ({error}); name another interpreter with ;python=")
try:
    ray.init(address=options["address"], log_to_driver=False, configure_logging=False)
except Exception as error:
    fail(f"there is no Ray cluster at '{options['address']}': {error}")


class Agent:
    def start(self, program, order, variables):
        import os, subprocess, tempfile
        self.log = tempfile.TemporaryFile()
        environment = dict(os.environ, **variables)
        try:
            # Its standard input stays open: it ends with this process.
            self.child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=self.log, stderr=self.log,
                                          env=environment, start_new_session=True)
        except OSError as error:
            raise RuntimeError(f"{program} cannot be started there: {error.strerror}")
        self.child.stdin.write(order.encode())
        self.child.stdin.flush()

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def wait(self):
        code = self.child.wait()
        self.log.seek(0)
        return code, self.log.read().decode(errors="replace")[-2000:].strip()

    def terminate(self):
        self.child.terminate()


# Without a number of CPUs an agent takes what the smallest node has.
alive = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
cpus = options["cpus"] or min((node["CPU"] for node in alive), default=0)
if not cpus:
    fail("no node of the Ray cluster has CPUs; say with ;cpus= how many an agent is to have")
bundle = {"CPU": cpus, **({"GPU": options["gpus"]} if options["gpus"] else {})}
count = options["nodes"]
if count < 0:
    count = sum(all(node.get(name, 0) >= amount for name, amount in bundle.items()) for node in alive)
tell(hello=count, cpus=cpus)

said = queue.Queue()  # None: the other side has gone


def listen():
    for line in sys.stdin:
        said.put(json.loads(line))
    said.put(None)


order = sys.stdin.readline()
if not order:
    os._exit(0)
order = json.loads(order)
threading.Thread(target=listen, daemon=True).start()

variables = {"MANTA_NODE": "held-stdin", "MANTA_NODE_RESOURCES": f"cpus={cpus:g},gpus={options['gpus']:g}"}
waiting = {}  # references: whom each is for, and what to do with its value
wanted = set()  # names of agents
groups, actors, nodes = {}, {}, {}  # of each name
places = {}  # the node on which each was found a place
taken_after = {}  # when the place of each counts as somebody else's, and what says that it is its own
leaving = {}  # when the place of each is taken back, if its agent has not ended
LEAVING_GRACE = 15


# Places are found for all at once, as the strategy says. Then each gets its own for itself, which somebody else may have
# taken in between: then another is found.
def bring_together(names, patience=2):
    wanted.update(names)
    others = [places[name] for name in places if name in wanted]
    spread = others and options["strategy"] == "STRICT_SPREAD"
    where = [{"ray.io/node-id": f"!in({','.join(others)})"}] * len(names) if spread else None
    search = placement_group([bundle] * len(names), strategy=options["strategy"], bundle_label_selector=where)
    waiting[search.ready()] = (names, lambda _: settle(names, search, patience))


def settle(names, search, patience):
    found = placement_group_table(search)["bundles_to_node_id"]
    remove_placement_group(search)
    for index, name in enumerate(names):
        if name in wanted:
            places[name] = found[index]
            taken_after[name] = (time.monotonic() + patience, 2 * patience, bring(name, [{"ray.io/node-id": found[index]}]))


def bring(name, where=None):
    wanted.add(name)
    groups[name] = group = placement_group([bundle], strategy="PACK", bundle_label_selector=where)
    ready = group.ready()
    waiting[ready] = ([name], lambda _: start(name, group))
    return ready


def look_for_taken_places():
    late = {name: taken for name, taken in taken_after.items() if time.monotonic() > taken[0]}
    for name, (_, _, ready) in late.items():
        print(f"the place of {name} on Ray's node {places[name]} was taken by somebody else before it was held: another is "
              "searched for", file=sys.stderr, flush=True)
        waiting.pop(ready, None)
        remove_placement_group(groups.pop(name))
        for of_name in (taken_after, places):
            of_name.pop(name)
    if late:
        bring_together(list(late), max(patience for _, patience, _ in late.values()))


def start(name, group):
    taken_after.pop(name, None)
    if name not in wanted:
        return
    actors[name] = actor = ray.remote(Agent).options(num_cpus=cpus, num_gpus=options["gpus"], max_concurrency=4,
                                                     scheduling_strategy=InGroup(group, 0)).remote()
    text = order["order"].replace("{name}", name)
    waiting[actor.start.remote(options["program"], text, variables)] = ([name], lambda _: started(name, actor))


def started(name, actor):
    waiting[actor.node.remote()] = ([], lambda node: nodes.update({name: node} if name in wanted else {}))
    waiting[actor.wait.remote()] = ([name], lambda end: ended(name, f"its agent exited with code {end[0]}", end[1]))


def ended(name, how, text):
    if take_back(name):
        tell(ended=name, why=how + (f". It said:\n{text}" if text else ""))


# With its group goes its actor, if there is one, and with that its agent.
def take_back(name):
    if name not in wanted:
        return False
    wanted.remove(name)
    for of_name in (actors, nodes, leaving, places, taken_after):
        of_name.pop(name, None)
    if name in groups:
        try:
            remove_placement_group(groups.pop(name))
        except Exception as error:
            tell(warning=f"the place of {name} is not given back ({type(error).__name__}: {error})")
    return True


def take_back_late():
    for name in [name for name, until in leaving.items() if time.monotonic() > until]:
        take_back(name)


said_blind = False


# A private interface of Ray's, which raises in a client (ray://...).
def look_for_drains():
    global said_blind
    try:
        draining = list(ray._private.state.state.get_draining_nodes())
    except Exception as error:
        if not said_blind:
            tell(warning=f"drains of its nodes are not seen here ({type(error).__name__}: {error}): "
                         "a node that Ray drains is lost without notice")
        said_blind = True
        return
    for name in [name for name, node in nodes.items() if node in draining]:
        del nodes[name]
        actors[name].terminate.remote()


if count == 1:
    bring("ray-0")
elif count:
    bring_together([f"ray-{index}" for index in range(count)])
while True:
    try:
        command = said.get(timeout=0 if waiting else 0.1)
        if command is None:
            break
        if "bring" in command:
            bring(command["bring"])
        elif "withdraw" in command:
            take_back(command["withdraw"])
        elif command["left"] in wanted:
            leaving[command["left"]] = time.monotonic() + LEAVING_GRACE
    except queue.Empty:
        pass
    done, _ = ray.wait(list(waiting), timeout=0.1) if waiting else ([], [])
    for reference in done:
        names, then = waiting.pop(reference)
        try:
            then(ray.get(reference))
        except Exception as error:
            for name in names:
                ended(name, "Ray could not start its agent, or has lost it", str(error))
    take_back_late()
    look_for_taken_places()
    look_for_drains()
ray.shutdown()
)python";
}

}  // namespace manta
