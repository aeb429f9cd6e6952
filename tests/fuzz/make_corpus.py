#!/usr/bin/env python3
"""Writes the seed corpora of the fuzzers: small files made by hand, none of them anyone's trace."""

import gzip
import io
import json
import pathlib
import sqlite3
import tarfile

ROOT = pathlib.Path(__file__).parent / "corpus"


def write(fuzzer: str, name: str, data: bytes) -> None:
    folder = ROOT / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def event(category: str, name: str, begin: float, duration: float, **args) -> dict:
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 8, "ts": begin, "dur": duration, "args": args}


def kineto() -> None:
    events = [
        event("user_annotation", "ProfilerStep#1", 1.5, 90),
        event("cpu_op", "aten::mm", 2.25, 50),
        event("user_annotation", "nccl:all_reduce", 3, 9, **{"Input Dims": [[6, 4]], "Input type": ["float"]}),
        event("cuda_runtime", "cudaLaunchKernel", 4, 2, correlation=11),
        event("kernel", "ncclDevKernel_AllReduce", 9, 6, device=0, stream=5, correlation=11, **{"In msg nelems": 4, "dtype": "Float"}),
        event("gpu_memcpy", "Memcpy HtoD", 16, 1, stream=5, bytes=64),
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python3"}},
        {"ph": "B", "name": "open", "pid": 7, "tid": 8, "ts": 1},
        {"ph": "E", "pid": 7, "tid": 8, "ts": 2},
        {},
    ]
    trace = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": events,
             "baseTimeNanoseconds": 1711964646000000000}
    text = json.dumps(trace)
    write("kineto_fuzzer", "whole", text.encode())
    write("kineto_fuzzer", "array", json.dumps(events).encode())
    write("kineto_fuzzer", "cut", text[:300].encode())
    write("kineto_fuzzer", "quotes", text.replace("aten::mm", 'at"en').encode())
    write("kineto_fuzzer", "bytes", text.encode().replace(b"aten::mm", b"a\n\xff\x01"))


def published() -> None:
    kernel = {"name": "gemm", "gpu_start": 1500, "duration": 300}
    call = {"name": "cudaLaunchKernel", "start": 1300, "end": 1400, "kernels": [kernel]}
    backend = {"op_name": "aten::mm", "start": 1200, "end": 4000, "runtime_calls": [call], "driver_calls": []}
    frontend = {"op_name": "Linear", "start": 1100, "end": 5000, "torch_backend_ops": [backend]}
    trace = {"steps": [{"step_name": "s", "start": 1000, "end": 9000, "rank": 0, "torch_frontend_ops": [frontend]}]}
    write("published_fuzzer", "whole", json.dumps(trace).encode())
    write("published_fuzzer", "cut", json.dumps(trace)[:120].encode())


def inspector() -> None:
    header = {"id": "0x7f", "rank": 2, "n_ranks": 8}
    metadata = {"dump_timestamp_us": 1000000, "hostname": "h", "pid": 5}
    times = {"kernel_events": [{"kernel_start_ts": 1500, "kernel_stop_ts": 1600}]}
    lines = [
        {"header": header, "metadata": metadata, "dump_stats": {"coll_records": 1}},
        {"coll_perf": {"coll": "AllReduce", "coll_sn": 7, "coll_msg_size_bytes": 64, "coll_exec_time_us": 30}},
        {"coll_perf": {"coll": "AllGather", "coll_sn": 8, "coll_exec_time_us": 3, "event_trace_ts": times}},
        {"p2p_perf": {"p2p": "Send", "p2p_sn": 1, "p2p_peer": 3, "p2p_exec_time_us": 3}},
    ]
    write("nccl_inspector_fuzzer", "lines", "\n".join(json.dumps(line) for line in lines).encode())


def logs() -> None:
    write("log_fuzzer", "vllm", b"(EngineCore pid=23) INFO 08-01 20:59:09 [core.py:339] step 3 HF_TOKEN=abcdefgh1234\r\n")
    write("log_fuzzer", "nccl", b"h:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2\n\x1b[32mok\x1b[0m 10%|#\r 20%|##\r\n")
    write("log_fuzzer", "key", b"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nhttp://u:p@h/ Bearer abcdefghijklmn\n")


def log_lines() -> None:
    write("log_line_fuzzer", "vllm", b"(EngineCore pid=23) INFO 08-01 20:59:09 [loggers.py:118] Running: 3 reqs, 12.5 tokens/s")
    write("log_line_fuzzer", "uvicorn", b'INFO:     127.0.0.1:5 - "POST /v1 HTTP/1.1" 200 OK')
    write("log_line_fuzzer", "torn", b"\x1b[32m[rank0]: a 10%|#\r 20%|## request cmpl-12ab took 3.5 ms at 0x7f")


def reconstruct() -> None:
    def step(begin: int) -> list[dict]:
        return [
            event("user_annotation", "execute_context_1(8)_generation_2(2)", begin, 90),
            event("cpu_op", "aten::mm", begin + 2, 50),
            event("cuda_runtime", "cudaLaunchKernel", begin + 4, 2, correlation=begin),
            event("kernel", "gemm", begin + 9, 6, device=0, stream=5, correlation=begin),
            event("kernel", "ncclDevKernel_AllReduce", begin + 14, 6, device=0, stream=5, correlation=begin, Seq=begin),
        ]

    write("reconstruct_fuzzer", "steps", json.dumps(step(100) + step(200) + step(300)).encode())


def archives() -> None:
    text = b'[{"ph":"X"}]'
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in (("a/rank0.json", text), ("a/rank1.json.gz", gzip.compress(text, mtime=0))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    write("archive_fuzzer", "plain", text)
    write("archive_fuzzer", "gzip", gzip.compress(text, mtime=0))
    write("archive_fuzzer", "tar", buffer.getvalue())
    write("archive_fuzzer", "tar_gz", gzip.compress(buffer.getvalue(), mtime=0))


def nsight() -> None:
    folder = ROOT / "nsight_fuzzer"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.executescript("""
        PRAGMA page_size=512; VACUUM;
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1,'cudaLaunchKernel'),(2,'gemm'),(3,'ncclSend');
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start,end,globalTid,correlationId,nameId);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1,2,167772170,5,1);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start,end,deviceId,streamId,correlationId,globalPid,shortName);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (6,9,1,7,5,167772160,2);
        CREATE TABLE NVTX_EVENTS (start,end,eventType,text,textId,globalTid);
        INSERT INTO NVTX_EVENTS VALUES (1,5,59,NULL,3,167772170),(2,NULL,60,'step',NULL,167772170);
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs,systemClockNs);
        INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779782330176752435,1000);
    """)
    database.commit()
    database.close()


for make in (kineto, published, inspector, logs, log_lines, reconstruct, archives, nsight):
    make()
