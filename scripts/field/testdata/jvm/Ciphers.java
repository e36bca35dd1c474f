import org.bouncycastle.crypto.BlockCipher;
import org.bouncycastle.crypto.BufferedBlockCipher;
import org.bouncycastle.crypto.engines.AESEngine;
import org.bouncycastle.crypto.engines.RC6Engine;
import org.bouncycastle.crypto.engines.TwofishEngine;
import org.bouncycastle.crypto.modes.CBCBlockCipher;
import org.bouncycastle.crypto.params.KeyParameter;
import org.bouncycastle.crypto.params.ParametersWithIV;

/** Bouncy Castle's CBC with three ciphers: one mode, whose call of the cipher has three receivers. A round is 64 KB. */
public class Ciphers {
	static final byte[] text = new byte[64 << 10], secret = new byte[text.length + 64];

	public static void main(String[] args) throws Exception {
		BufferedBlockCipher aes = cbc(new AESEngine()), rc6 = cbc(new RC6Engine()), twofish = cbc(new TwofishEngine());
		Rounds.report();
		while (true) {
			aes(aes);
			rc6(rc6);
			twofish(twofish);
			Rounds.DONE.increment();
		}
	}

	static BufferedBlockCipher cbc(BlockCipher engine) {
		BufferedBlockCipher c = new BufferedBlockCipher(new CBCBlockCipher(engine));
		c.init(true, new ParametersWithIV(new KeyParameter(new byte[16]), new byte[16]));
		return c;
	}

	static void aes(BufferedBlockCipher c) { c.processBytes(text, 0, text.length, secret, 0); }
	static void rc6(BufferedBlockCipher c) { c.processBytes(text, 0, text.length, secret, 0); }
	static void twofish(BufferedBlockCipher c) { c.processBytes(text, 0, text.length, secret, 0); }
}
