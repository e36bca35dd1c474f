// Package hub adds up the profiles of a fleet, and serves the sums. It has no state of its own: any number of hubs may
// share a bucket.
//
//		daemon ──POST──▶ intake ──segment──▶ bucket ──▶ aggregator ──aggregate, manifest──▶ bucket ──▶ readers
//
//	 1. [Hub.ServeHTTP] checks a contribution: token, bounds, whether it can be read. What cannot is refused.
//	 2. The intake writes the contributions of a moment as one segment, and acknowledges them when it is durable.
//	 3. The aggregator reads segments, merges what is new of each build into its parts, and removes the segments.
//	 4. Readers get the profiles of a build, its fan-in and its table of methods, by ETag.
//
// A bucket has these objects, where ID is of a target, a build and a unit:
//
//	seg/P/<unix ms>-<hub>-<n>-<contributions>     contributions in frames, of partition P; removed when they are merged
//	agg/ID/manifest                               what the build has, see manifest; changed by its tag alone
//	agg/ID/commit/<generation>-<nonce>            the parts of a commit, see pack and part: sums of classes, hours and days, in columns
//	lease/P                                       which hub merges partition P: for efficiency alone
//	bad/…                                         what could not be read, for people; removed after 30 days
//
// # Nothing is lost, nothing counts twice
//
// A manifest names the parts and the contributions in them. Both change in one write, under the condition that the
// manifest is what was read. So a segment may be read any number of times, by any number of aggregators at once, and in
// any order: what the manifest has already is left out. A write whose answer was lost is read back, and known by its
// nonce. A pack that lost has a name that no manifest has, and becomes garbage.
//
// # Traps
//
// Each was met by a prototype, or in a review. Without its cure the test fails:
//
//	two aggregators make the same bytes, and one removes "its own"      names of generation and nonce      TestCollectorMeetsAggregator, TestSameBytes
//	garbage collection removes what a manifest names, or soon will      an hour, and a manifest read again  TestKills, TestYoungObjects
//	an aggregator stops for that hour before its manifest               the collector raises the generation TestStoppedAggregator
//	a manifest has the bytes, and so the tag, of an earlier one         generation and nonce                TestStoppedAggregator
//	a hub is killed before a long round ends                            commits within it                   TestRoundsEnd
//	rounds cost requests                                                much waits, or time has passed      TestFirstRound
//	a refused condition is of one's own write                           read back, compare                  TestLostAnswers
//	a refusal has another status than 412, or that of a success         its code, and a tag of each write   bucket: TestRefusedByS3, TestFailureInSuccess
//	what comes out of order is lost                                     ranges of numbers                   TestRanges, TestKills
//	clocks of hubs differ                                               no cursor over names                TestClocksDiffer
//	a later version's contribution or manifest                          waits for a later hub               TestNewer
//	what cannot be read blocks a build                                  refused, or set aside in bad/       TestRefuses, TestPoison
//	a sum grows until nobody can read it                                a contribution that does not fit        TestFullSum
//	a weight or a profile without bounds                                time of the CPUs, limits of reading TestRefuses
//	a sum tells of machines                                             a description of the build alone    TestNothingOfUsers
//	an epoch's age by a daemon's clock                                  the aggregator's stamp              TestEpochs, TestOldEpoch
//	ranges are forgotten while a segment has their numbers              the oldest segment of all           TestEpochs, TestOldestOfAll
//	a bucket ignores conditions                                         checked at the start                bucket: TestBadBuckets
package hub
