#include "ledger.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace oncebox::workers {

namespace {

Event parse(const std::string& line) {
  std::istringstream in(line);
  Event event;
  int kind = 0;
  std::string kind_name;
  Duration::rep locked_until_ms = 0;
  Duration::rep lease_ms = 0;
  in >> event.at >> kind >> kind_name >> event.id >> event.word >> event.delivery >>
      locked_until_ms >> lease_ms >> event.deliveries >> event.attempt;
  if (!in) throw std::runtime_error("not a line of a ledger: " + line);
  event.kind = static_cast<EventKind>(kind);
  event.locked_until = TimePoint(Duration(locked_until_ms));
  event.lease = Duration(lease_ms);
  return event;
}

// For people, and for the test that reads a trace of system calls.
std::string_view name_of(EventKind kind) {
  switch (kind) {
    case EventKind::offered:
      return "offered";
    case EventKind::answered:
      return "answered";
    case EventKind::refused:
      return "refused";
    case EventKind::claimed:
      return "claimed";
    case EventKind::unclaimed:
      return "unclaimed";
    case EventKind::extended:
      return "extended";
    case EventKind::settling:
      return "settling";
    case EventKind::settled:
      return "settled";
    case EventKind::begun:
      return "begun";
    case EventKind::ended:
      return "ended";
    case EventKind::noted:
      return "noted";
  }
  return "unknown";
}

}  // namespace

Instant instant_now() {
  // On Linux this is CLOCK_MONOTONIC.
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Ledger::Ledger(const std::string& path)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::runtime_error("cannot open the ledger " + path);
}

Ledger::~Ledger() { close(file_); }

void Ledger::add(Event event) {
  event.at = instant_now();
  const std::string line =
      fmt::format("{} {} {} {} {} {} {} {} {} {}\n", event.at, static_cast<int>(event.kind),
                  name_of(event.kind), event.id, event.word, event.delivery,
                  event.locked_until.time_since_epoch().count(), event.lease.count(),
                  event.deliveries, event.attempt);
  // One call for a line: appends of several threads do not mix.
  const ssize_t written = write(file_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) std::abort();
}

const std::vector<Event>& LedgerReader::read() {
  std::ifstream in(path_);
  in.seekg(read_until_);
  std::string line;
  while (std::getline(in, line) && !in.eof()) {
    events_.push_back(parse(line));
    read_until_ += static_cast<std::streamoff>(line.size()) + 1;
  }
  return events_;
}

std::vector<Event> read_ledger(const std::string& path) { return LedgerReader(path).read(); }

}  // namespace oncebox::workers
