use lingua_core::outcome::Code;
use proptest::prelude::*;

use super::*;

/// `[length][packet]`
fn framed(packet: &[u8]) -> Vec<u8> {
    let length = u16::try_from(packet.len()).unwrap();
    [&length.to_le_bytes()[..], packet].concat()
}

fn millis(tenths: u64) -> Duration {
    Duration::from_micros(tenths * 100)
}

fn opus(audio: &[u8]) -> Result<(Bytes, Duration), Refusal> {
    Framer::new(Codec::Opus).push(Bytes::copy_from_slice(audio))
}

/// Every configuration of RFC 6716, table 2, in tenths of a millisecond.
const FRAMES: [u64; 32] = [
    100, 200, 400, 600, // SILK, narrow band
    100, 200, 400, 600, // SILK, medium band
    100, 200, 400, 600, // SILK, wide band
    100, 200, // hybrid, super-wide band
    100, 200, // hybrid, full band
    25, 50, 100, 200, // CELT, narrow band
    25, 50, 100, 200, // CELT, wide band
    25, 50, 100, 200, // CELT, super-wide band
    25, 50, 100, 200, // CELT, full band
];

#[test]
fn every_configuration_lasts_as_long_as_the_rfc_says() {
    for (config, tenths) in (0_u8..).zip(FRAMES) {
        for stereo in [0, 4] {
            let toc = config << 3 | stereo;
            for (code, frames) in [(0, 1), (1, 2), (2, 2)] {
                let (_, lasts) = opus(&framed(&[toc | code, 7])).unwrap();
                assert_eq!(lasts, millis(tenths * frames), "{config} {code}");
            }
            for count in 0..64_u8 {
                // The bits for padding and varying sizes say nothing about time.
                let packet = framed(&[toc | 3, count | 0b1100_0000, 7]);
                let total = tenths * u64::from(count);
                match opus(&packet) {
                    Ok((_, lasts)) => assert_eq!(lasts, millis(total)),
                    Err(_) => assert!(count == 0 || total > 1_200, "{config} {count}"),
                }
                assert_eq!(opus(&packet).is_ok(), (1..=1_200).contains(&total));
            }
        }
    }
}

#[test]
fn whole_packets_are_given_back_without_a_copy() {
    let audio = Bytes::from([framed(&[0x08, 1]), framed(&[0x18])].concat());
    let mut framer = Framer::new(Codec::Opus);
    let (whole, lasts) = framer.push(audio.clone()).unwrap();
    assert_eq!((whole.as_ptr(), whole.len()), (audio.as_ptr(), audio.len()));
    assert_eq!(lasts, millis(800));
    let cut = audio.slice(..audio.len() - 1);
    let (whole, _) = framer.push(cut.clone()).unwrap();
    assert_eq!((whole.as_ptr(), whole.len()), (cut.as_ptr(), 4), "also what comes before the rest");
    assert_eq!(framer.finish(), Some(2));
    let samples = Bytes::from(vec![0; 640]);
    let (whole, lasts) = Framer::new(Codec::Pcm16).push(samples.clone()).unwrap();
    assert_eq!((whole.as_ptr(), lasts), (samples.as_ptr(), Duration::from_millis(20)));
}

#[test]
fn an_empty_piece_is_nothing() {
    for codec in [Codec::Opus, Codec::Pcm16] {
        let mut framer = Framer::new(codec);
        assert_eq!(framer.push(Bytes::new()).unwrap(), (Bytes::new(), Duration::ZERO));
        framer.push(Bytes::from_static(&[5])).unwrap();
        assert_eq!(framer.push(Bytes::new()).unwrap(), (Bytes::new(), Duration::ZERO));
        assert_eq!((framer.finish(), framer.finish()), (Some(1), None));
    }
}

#[test]
fn a_wrong_packet_is_named_and_changes_nothing() {
    let good = framed(&[0x08, 1, 2]);
    for (bad, why) in [
        (&[0, 0][..], "no bytes"),
        (&[1, 0, 0x0b], "count byte"),
        (&[2, 0, 0x0b, 0], "no frames"),
        (&[2, 0, 0x0b, 7], "120 ms"),
        (&[9, 0, 0x1b, 3], "120 ms"),
    ] {
        let mut framer = Framer::new(Codec::Opus);
        let refusal = framer.push(Bytes::from([&good, bad].concat())).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidMessage);
        assert!(refusal.detail.starts_with("opus packet 1: "), "{}", refusal.detail);
        assert!(refusal.detail.contains(why), "{}", refusal.detail);
        assert_eq!(framer.finish(), None, "nothing of it is kept");
        // What was held back before is there still, and goes on with what is right.
        framer.push(Bytes::copy_from_slice(&good[..4])).unwrap();
        framer.push(Bytes::from([&good[4..], bad].concat())).unwrap_err();
        let (whole, lasts) = framer.push(Bytes::copy_from_slice(&good[4..])).unwrap();
        assert_eq!((&whole[..], lasts), (&good[..], millis(200)));
    }
}

#[test]
fn a_long_packet_in_single_bytes_is_held_back_and_no_more() {
    let packet = framed(&[0x08; 65_535]);
    let mut framer = Framer::new(Codec::Opus);
    for byte in &packet[..packet.len() - 1] {
        let (whole, _) = framer.push(Bytes::copy_from_slice(&[*byte])).unwrap();
        assert!(whole.is_empty());
    }
    let (whole, _) = framer.push(Bytes::copy_from_slice(&packet[packet.len() - 1..])).unwrap();
    assert_eq!(whole, packet);
    assert_eq!(framer.finish(), None);
}

#[test]
fn whole_utterances_last_as_long_as_their_form_says() {
    let of = |format: &str, rate: u32, audio: Vec<u8>| duration_of(format, rate, &audio.into());
    let run = [framed(&[0x08, 1]), framed(&[0x80])].concat();
    assert_eq!(of("opus", 16_000, run.clone()).unwrap(), millis(225));
    for no_run in [&b"OggS\0\x02"[..], &run[..5], &[0, 0, 1], b"\x1aE\xdf\xa3webm"] {
        assert_eq!(of("opus", 16_000, no_run.to_vec()).unwrap(), Duration::ZERO, "{no_run:?}");
    }
    assert_eq!(of("pcm16", 8_000, vec![0; 16_002]).unwrap(), Duration::from_micros(1_000_125));
    assert_eq!(of("pcm16", 44_100, vec![0; 2]).unwrap(), Duration::from_nanos(22_675));
    assert!(of("pcm16", 8_000, vec![0; 3]).unwrap_err().detail.starts_with("audio: "));
}

/// A file with these numbers in its header.
fn wav(kind: u16, channels: u16, rate: u32, bits: u16, said: u32, data: usize) -> Vec<u8> {
    let block = channels * bits / 8;
    let mut file = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
    file.extend([kind, channels].map(u16::to_le_bytes).concat());
    file.extend([rate, rate.wrapping_mul(block.into())].map(u32::to_le_bytes).concat());
    file.extend([block, bits].map(u16::to_le_bytes).concat());
    file.extend(b"data");
    file.extend(said.to_le_bytes());
    file.resize(file.len() + data, 0);
    file
}

#[test]
fn a_wav_file_lasts_as_long_as_its_header_says() {
    let of = |file: Vec<u8>| duration_of("wav", 8_000, &file.into());
    assert_eq!(of(wav(1, 1, 16_000, 16, 3_200, 3_200)).unwrap(), millis(1_000));
    assert_eq!(of(wav(1, 1, 16_000, 16, 1_600, 3_200)).unwrap(), millis(500), "more may follow");
    for streamed in [0, u32::MAX, 99_999] {
        assert_eq!(of(wav(3, 2, 48_000, 32, streamed, 38_400)).unwrap(), millis(1_000));
    }
    assert_eq!(of(wav(0xFFFE, 1, 44_100, 24, 0, 132_300)).unwrap(), millis(10_000));
    let whole = wav(1, 1, 16_000, 16, 2, 2);
    for end in 0..whole.len() - 2 {
        let refusal = of(whole[..end].to_vec()).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidMessage);
        assert!(refusal.detail.starts_with("audio: wav: "), "{}", refusal.detail);
    }
    for (wrong, why) in [
        (wav(7, 1, 16_000, 8, 2, 2), "integers or floats"),
        (wav(1, 1, 0, 16, 2, 2), "8000 to 192000"),
        (wav(1, 1, u32::MAX, 16, 2, 2), "8000 to 192000"),
        (wav(1, 0, 16_000, 16, 2, 2), "fit together"),
        (wav(1, 1, 16_000, 0, 2, 2), "fit together"),
    ] {
        let refusal = of(wrong).unwrap_err();
        assert!(refusal.detail.contains(why), "{}", refusal.detail);
    }
    let mut early = b"RIFF\0\0\0\0WAVEdata\0\0\0\0".to_vec();
    early.extend([0; 40]);
    assert!(of(early).unwrap_err().detail.contains("before the data"));
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let any_packet = (any::<u8>(), 1..=48_u8, proptest::collection::vec(any::<u8>(), 0..40));
    any_packet.prop_filter_map("too long", |(toc, count, mut rest)| {
        let frames = if toc & 3 == 3 { u64::from(count) } else { 1 };
        let right = opus::frame_micros(toc >> 3) * frames <= 120_000;
        if toc & 3 == 3 {
            rest.insert(0, count);
        }
        rest.insert(0, toc);
        right.then_some(rest)
    })
}

/// Pushes these pieces; what comes out, how long it lasts, what is left over.
fn pieces(codec: Codec, audio: &[u8], cuts: &[usize]) -> (Vec<u8>, Duration, Option<usize>) {
    let mut framer = Framer::new(codec);
    let (mut out, mut lasts, mut from) = (Vec::new(), Duration::ZERO, 0);
    for to in cuts.iter().copied().chain([audio.len()]) {
        let (whole, more) = framer.push(Bytes::copy_from_slice(&audio[from..to])).unwrap();
        let (end, again) = framer.whole(&whole).unwrap();
        assert_eq!((end, again), (whole.len(), more), "only what is whole, with its own duration");
        out.extend_from_slice(&whole);
        lasts += more;
        from = to;
    }
    (out, lasts, framer.finish())
}

proptest! {
    #[test]
    fn wherever_speech_is_cut_the_same_packets_come_out(
        packets in proptest::collection::vec(packet(), 1..6),
        mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        missing in 0..3_usize,
    ) {
        let run: Vec<u8> = packets.iter().flat_map(|packet| framed(packet)).collect();
        let run = &run[..run.len() - missing.min(run.len())];
        let at_once = pieces(Codec::Opus, run, &[]);
        for at in 0..=run.len() {
            prop_assert_eq!(&pieces(Codec::Opus, run, &[at]), &at_once);
        }
        let every: Vec<usize> = (1..run.len()).collect();
        prop_assert_eq!(&pieces(Codec::Opus, run, &every), &at_once);
        let mut places: Vec<usize> = cuts.drain(..).map(|cut| cut.index(run.len() + 1)).collect();
        places.sort_unstable();
        prop_assert_eq!(&pieces(Codec::Opus, run, &places), &at_once);
        let samples = pieces(Codec::Pcm16, run, &places);
        let whole = run.len() / 2;
        prop_assert_eq!(&samples.0[..], &run[..whole * 2]);
        prop_assert_eq!(samples.1, Duration::from_nanos(whole as u64 * 62_500));
        prop_assert_eq!(samples.2, (run.len() % 2 == 1).then_some(1));
    }

    #[test]
    fn no_bytes_make_it_fall_over(chunks in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..30), 0..20,
    )) {
        let mut framer = Framer::new(Codec::Opus);
        for chunk in chunks {
            let before = framer.held.clone();
            let bytes = Bytes::from(chunk.clone());
            for format in ["opus", "pcm16", "wav"] {
                let _ = duration_of(format, 16_000, &bytes);
            }
            match framer.push(bytes) {
                Ok((whole, _)) => {
                    prop_assert_eq!([&whole[..], &framer.held].concat(), [before, chunk].concat());
                }
                Err(_) => prop_assert_eq!(&framer.held, &before),
            }
            prop_assert!(framer.held.len() <= 65_536);
        }
    }
}
