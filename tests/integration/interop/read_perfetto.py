"""Prints what a Perfetto trace says: tracks, slices and flows, one a line, by the messages that Perfetto publishes."""

import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2


def main() -> None:
    trace = perfetto_trace_pb2.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    tracks, names, categories, open_slices, slices, flows = {}, {}, {}, {}, [], {}
    for packet in trace.packet:
        for message in (packet, packet.track_event, packet.track_descriptor, packet.interned_data):
            assert len(unknown_fields.UnknownFieldSet(message)) == 0
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        for entry in packet.interned_data.event_categories:
            categories[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            name = track.process.process_name or track.thread.thread_name or track.name
            assert track.uuid not in tracks
            pid = track.process.pid or track.thread.pid
            tracks[track.uuid] = (name, tracks[track.parent_uuid][0] if track.parent_uuid else f"process {pid}")
        if packet.HasField("track_event"):
            event = packet.track_event
            stack = open_slices.setdefault(event.track_uuid, [])
            if event.type == event.TYPE_SLICE_END:
                begin, item = stack.pop()
                assert packet.timestamp >= begin
                item["duration"] = packet.timestamp - begin
                continue
            if stack:
                assert packet.timestamp >= stack[-1][0]
            notes = {a.name: a.int_value if a.HasField("int_value") else a.string_value for a in event.debug_annotations}
            item = {
                "track": tracks[event.track_uuid][0],
                "begin": packet.timestamp,
                "duration": 0,
                "name": names[event.name_iid],
                "category": ",".join(categories[c] for c in event.category_iids),
                "notes": notes,
            }
            slices.append(item)
            for flow in list(event.flow_ids) + list(event.terminating_flow_ids):
                flows.setdefault(flow, []).append((packet.timestamp, item))
            if event.type == event.TYPE_SLICE_BEGIN:
                stack.append((packet.timestamp, item))
    assert all(not stack for stack in open_slices.values())
    for name, parent in tracks.values():
        print(f"track {name} in {parent}")
    for item in slices:
        notes = "".join(f" {key}={value}" for key, value in item["notes"].items())
        print(f"slice {item['track']}: {item['begin']} +{item['duration']} {item['category']} {item['name']}{notes}")
    for members in flows.values():
        members.sort(key=lambda member: member[0])
        print("flow " + " -> ".join(f"{item['name']} on {item['track']}" for _, item in members))


main()
