#include "story.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "workload.hpp"

namespace oncebox::workers {

namespace {

void begin_handling(Story& story, std::size_t number, const WorkerRun& run, const Event& event) {
  story.handlings.push_back({.run = number,
                             .delivery = event.delivery,
                             .begun = event.at,
                             .until = run.killed_at.value_or(std::numeric_limits<Instant>::max())});
}

void end_handling(Story& story, std::size_t run, const Event& event) {
  story.was_handled = true;
  for (Handling& handling : story.handlings) {
    if (handling.run == run && handling.delivery == event.delivery) handling.until = event.at;
  }
}

void note_answer(Story& story, const Event& event) {
  --story.in_doubt;
  ++story.answered;
  if (event.word == "accepted") ++story.accepted;
}

void note_refusal(Story& story, const Event& event) {
  // Any other code promises that nothing has changed.
  if (event.word != "outcome_unknown") --story.in_doubt;
}

void note_claim(Story& story, std::size_t run, const Event& event) {
  HeldDelivery& delivery = story.deliveries[event.delivery];
  ++delivery.claims;
  delivery.number = event.delivery;
  delivery.run = run;
  delivery.lease = event.lease;
  delivery.locked_first = event.locked_until;
  delivery.locked_until = event.locked_until;
  delivery.deliveries = event.deliveries;
  delivery.attempt = event.attempt;
}

void note_outcome(HeldDelivery& delivery, const Event& event) {
  if (delivery.settlings.empty()) {
    ADD_FAILURE() << event.id << ": an answer to no settlement";
    return;
  }
  if (event.word != "outcome_unknown") delivery.settlings.back().outcome = event.word;
}

void tell(Story& story, std::size_t number, const WorkerRun& run, const Event& event) {
  switch (event.kind) {
    case EventKind::offered:
      ++story.in_doubt;
      break;
    case EventKind::answered:
      note_answer(story, event);
      break;
    case EventKind::refused:
      note_refusal(story, event);
      break;
    case EventKind::claimed:
      note_claim(story, number, event);
      break;
    case EventKind::extended:
      story.deliveries[event.delivery].locked_until =
          std::max(story.deliveries[event.delivery].locked_until, event.locked_until);
      break;
    case EventKind::settling:
      story.deliveries[event.delivery].settlings.push_back({.verdict = event.word});
      break;
    case EventKind::settled:
      note_outcome(story.deliveries[event.delivery], event);
      break;
    case EventKind::begun:
      begin_handling(story, number, run, event);
      break;
    case EventKind::ended:
      end_handling(story, number, event);
      break;
    case EventKind::unclaimed:
    case EventKind::noted:
      break;
  }
}

}  // namespace

bool HeldDelivery::settled_as(std::string_view verdict) const {
  return std::any_of(settlings.begin(), settlings.end(), [&](const Settling& settling) {
    return settling.verdict == verdict && settling.outcome == "settled";
  });
}

bool HeldDelivery::perhaps_settled_as(std::string_view verdict) const {
  return std::any_of(settlings.begin(), settlings.end(), [&](const Settling& settling) {
    return settling.verdict == verdict && settling.outcome.value_or("settled") == "settled";
  });
}

bool HeldDelivery::superseded() const {
  return std::any_of(settlings.begin(), settlings.end(),
                     [](const Settling& settling) { return settling.outcome == "superseded"; });
}

TimePoint HeldDelivery::claimed_at() const { return locked_first - lease; }

Tally Story::tally(std::string_view verdict) const {
  Tally tally;
  for (const auto& [number, delivery] : deliveries) {
    if (delivery.settled_as(verdict)) {
      ++tally.certain;
    } else if (delivery.perhaps_settled_as(verdict)) {
      ++tally.possible;
    }
  }
  return tally;
}

Stories tell_stories(const std::vector<WorkerRun>& runs) {
  Stories stories;
  for (std::size_t number = 0; number < runs.size(); ++number) {
    for (const Event& event : runs[number].events) {
      if (event.kind == EventKind::noted || event.kind == EventKind::unclaimed) continue;
      Story& story = stories[event.id];
      story.id = event.id;
      tell(story, number, runs[number], event);
    }
  }
  return stories;
}

}  // namespace oncebox::workers
