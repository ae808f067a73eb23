"""Usage: status_test.py <the program manta> <the program waits>. Looks at runs that live, on one
node and on several, that are stopped, and that are dead."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MANTA, WAITS = sys.argv[1:3]


class Status(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {**os.environ, "TMPDIR": self.folder}

    def start(self, **variables):
        flag = os.path.join(self.folder, "flag")
        open(flag, "w").close()
        driver = subprocess.Popen([WAITS, flag], env={**self.environment, **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  start_new_session=True, text=True)
        self.addCleanup(driver.stdout.close)
        self.addCleanup(driver.stdin.close)
        self.addCleanup(driver.wait)
        self.addCleanup(driver.kill)
        self.assertEqual(driver.stdout.readline(), "ready\n")
        return driver

    def ask(self, *arguments, code=0):
        done = subprocess.run([MANTA, *arguments], env=self.environment, capture_output=True, text=True, timeout=50)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def run_of(self, driver, **options):
        lines = self.ask("status", "--json", **options).splitlines()
        found = [run for run in map(json.loads, lines) if run["pid"] == driver.pid]
        self.assertEqual(len(found), 1, lines)
        return found[0]

    def test_no_runs(self):
        self.assertEqual(self.ask("status"), f"no runs of this user in {self.folder}\n")

    def test_help_and_refusals(self):
        self.assertIn("status", self.ask("--help"))
        self.assertIn("--timeout", self.ask("status", "--help"))
        for wrong in ([], ["stats"], ["status", "--no-such-option"], ["status", "now"], ["status", "--timeout", "soon"]):
            done = subprocess.run([MANTA, *wrong], capture_output=True, text=True, timeout=50)
            self.assertNotEqual(done.returncode, 0, wrong)
            self.assertTrue(done.stdout + done.stderr, wrong)
        self.assertIn("cannot be read", self.ask("status", "--temporary-folder", self.folder + "/none", code=1))

    def test_a_run(self):
        driver = self.start()
        text = self.ask("status", "--processes")
        self.assertIn(f"waits (pid {driver.pid}), for ", text)
        self.assertIn("2 of 2 CPU", text)
        self.assertIn("2 wait for room, 1 wait for their arguments", text)
        self.assertIn("2 wait, the first: task 'follow", text)
        self.assertIn("waits for 2 CPU (0 of 2 free); held by task 'hold", text)
        self.assertRegex(text, r"worker-1 +\d+ +0 +hold")
        run = self.run_of(driver)
        self.assertEqual(run["nodes"][0]["total"]["CPU"], 2)
        self.assertEqual(run["nodes"][0]["free"]["CPU"], 0)
        self.assertEqual(run["nodes"][0]["labels"]["zone"], "a")
        # Looking changes nothing: the run goes on, and ends well.
        for _ in range(30):
            self.run_of(driver)
        driver.stdin.close()
        self.assertEqual(driver.wait(timeout=50), 0)
        self.assertEqual(self.ask("status"), f"no runs of this user in {self.folder}\n")

    def test_a_run_on_several_nodes(self):
        # Two agents on this machine, which is all that they know of the driver's; each has a folder of its own here.
        driver = self.start(MANTA_CLUSTER="hosts:n1,n2;command=env AS={host} MANTA_NODE_RESOURCES=cpus=1,license=3;address=127.0.0.1")
        # An agent that has joined answers a moment later.
        deadline = time.monotonic() + 40
        while "is starting" in (text := self.ask("status")):
            self.assertLess(time.monotonic(), deadline, text)
        self.assertIn(f"waits (pid {driver.pid}), for ", text)
        host = os.uname().nodename
        self.assertRegex(text, rf"\n  0 +{host} +alive +\d+ +2 of 2 CPU")
        for node in (1, 2):
            self.assertRegex(text, rf"\n  {node} +{host} +alive +\d+ +0 of 1 CPU.*0 of 3 license")
            self.assertRegex(text, rf"process \d+, in {self.folder}/\S+: the agent of node {node}, with \d+ processes, "
                                   r"of the run whose driver is at 127\.0\.0\.1:\d+\n")
        runs = [json.loads(line) for line in self.ask("status", "--json").splitlines()]
        agents = {run["node"]: run for run in runs if run["role"] == "agent"}
        self.assertEqual(sorted(agents), [1, 2])
        self.assertFalse(agents[1]["draining"])
        self.assertEqual(agents[1]["driver"], agents[2]["driver"])
        self.assertEqual([node["id"] for node in self.run_of(driver)["nodes"]], [0, 1, 2])
        os.kill(agents[2]["pid"], signal.SIGTERM)  # as a cluster does before it takes a node away
        deadline = time.monotonic() + 40
        while not any(node["state"] == "draining" for node in self.run_of(driver)["nodes"]):
            self.assertLess(time.monotonic(), deadline)
        self.assertRegex(self.ask("status"), rf"\n  2 +{host} +draining ")
        driver.stdin.close()
        self.assertEqual(driver.wait(timeout=50), 0)
        self.assertEqual(self.ask("status"), f"no runs of this user in {self.folder}\n")

    def test_a_run_that_does_not_answer(self):
        driver = self.start()
        os.kill(driver.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, driver.pid, os.WSTOPPED)  # until all of its threads have stopped
        text = self.ask("status", "--timeout", "0.3", code=1)
        self.assertIn(f"process {driver.pid}, in ", text)
        self.assertIn("has not answered in 0.3 s", text)
        os.kill(driver.pid, signal.SIGCONT)
        self.assertEqual(self.run_of(driver)["state"], "answered")

    def test_a_dead_run_is_said_to_be_dead(self):
        driver = self.start()
        zygote = int(subprocess.run(["pgrep", "-P", str(driver.pid)], capture_output=True, text=True).stdout.split()[0])
        os.kill(zygote, signal.SIGSTOP)  # so that it does not remove the folder
        driver.kill()
        driver.wait(timeout=50)
        self.addCleanup(os.kill, zygote, signal.SIGKILL)
        self.assertIn("has ended", self.ask("status"))
        self.assertEqual(self.run_of(driver)["state"], "ended")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
